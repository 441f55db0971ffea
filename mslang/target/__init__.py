"""Machines: descriptions, detection, measured limits."""
