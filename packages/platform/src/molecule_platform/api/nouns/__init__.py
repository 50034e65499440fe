"""One file for each noun of the API: its shapes and its rows of the route table."""
