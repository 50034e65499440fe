"""Short path: this name is the module `molecule_runtime.settings.endpoints` itself."""

import sys

from molecule_runtime.settings import endpoints as _module
from molecule_runtime.settings.endpoints import PROVIDERS as PROVIDERS
from molecule_runtime.settings.endpoints import EndpointError as EndpointError
from molecule_runtime.settings.endpoints import ModelEndpoint as ModelEndpoint
from molecule_runtime.settings.endpoints import resolve_endpoint as resolve_endpoint

sys.modules[__name__] = _module
