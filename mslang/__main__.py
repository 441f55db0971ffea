"""`python -m mslang` is the `mslang` command."""

from mslang.cli.main import main

raise SystemExit(main())
