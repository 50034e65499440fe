"""The two buses: inside one process, and between replicas over NATS."""
