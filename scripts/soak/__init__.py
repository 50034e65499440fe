"""The soak: many messages, agents of every temper, and a platform that is killed again and again."""
