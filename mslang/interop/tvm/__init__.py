"""TVM's serialised things, read and written without TVM: traces, program graphs, tuning records."""
