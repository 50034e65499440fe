"""The delegation tools on the platform of this process; each has `ainvoke(arguments)`."""

from molecule_runtime.kit.tools.platform_tools import ProcessTool

__all__ = ["check_delegation_status", "delegate_to_workspace"]

delegate_to_workspace = ProcessTool("delegate_to_workspace")
check_delegation_status = ProcessTool("check_delegation_status")
