"""Rules for CPUs: register tiles, packed operands, stages fused by rows, dot products, matrix tiles."""
