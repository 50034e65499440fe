"""The executor kit: what every agent engine needs around it, done once."""
