"""The executor by the name that the template image imports: `import executor` is the very module."""

import sys

from molecule_runtime.runtimes.hermes import executor

sys.modules[__name__] = executor
