"""What primitives know of a program: where things stand, what depends on what, what is legal."""
