"""The program: immutable values, what is known of them, and their text."""
