"""`python -m kontrast`, as the command `kontrast` of an installed one."""

import sys

from kontrast.command_line import main

sys.exit(main())
