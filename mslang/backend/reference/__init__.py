"""The reference interpreter: what a program means, with every rule of the meaning checked."""
