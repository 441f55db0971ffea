"""Text to tree and back: lexer, parser with recovery, formatter."""
