"""The engines that come with the runtime."""
