"""The language server: the protocol on one side, `mslang.ide` on the other."""
