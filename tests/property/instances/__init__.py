"""The second generator of the campaign: programs as text whose block instances depend on data, order and sizes.

It shares no code with the first (`block_programs`, `drawn_programs`, `drawn_blocks`, `steps*`): what one of them never
draws, the other may.
"""
