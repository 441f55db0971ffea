"""mslang: a language, a tuner and an editor for making tensor programs fast."""

__version__ = "0.1.0"
