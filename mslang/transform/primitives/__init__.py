"""The primitives, by family; `mslang.transform.registry` finds what the modules here declare."""
