"""TVMScript, both ways: `parse` reads TensorIR functions from Python text, `print` writes programs as such text.

Neither imports TVM, and the text is read, never run. Both spellings in use are read (`T.block` of `tir`, `T.sblock` of
`tirx`); `print` writes the newer one by default.
"""

from mslang.interop.tvmscript.read import Function, Reading, intrin, parse, parse_one, read
from mslang.interop.tvmscript.write import Dialect
from mslang.interop.tvmscript.write import print_script as print

__all__ = ["Dialect", "Function", "Reading", "intrin", "parse", "parse_one", "print", "read"]
