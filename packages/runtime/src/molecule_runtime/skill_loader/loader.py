"""Loading skills, at the import path of the first generation."""

from molecule_runtime.kit.setup.skills import LoadedSkill, SkillMetadata, load_skills, parse_skill_frontmatter

__all__ = ["LoadedSkill", "SkillMetadata", "load_skills", "parse_skill_frontmatter"]
