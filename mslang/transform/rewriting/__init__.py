"""How primitives change a program: rewriting below loops, nests made and taken apart, buffers staged and laid out."""
