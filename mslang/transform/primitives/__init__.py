"""The primitives, by family; `mslang.transform.registry` names them all."""
