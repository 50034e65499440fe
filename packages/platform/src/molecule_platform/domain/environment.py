"""What an agent that we start finds in its environment."""

from molecule_platform.domain.workspaces import Workspace


def environment_of(workspace: Workspace) -> dict[str, str]:
    """What every agent of ours is told, beside its secrets and whatever its provisioner adds."""
    return {
        "WORKSPACE_ID": workspace.id,
        "PARENT_ID": workspace.parent_id or "",
        "WORKSPACE_TIER": str(workspace.tier),
        "TIER": str(workspace.tier),
        "MOLECULE_ORG_ID": workspace.org_id,
        "AWARENESS_NAMESPACE": workspace.awareness_namespace,
        "MOLECULE_AGENT_ROLE": workspace.role,
    }
