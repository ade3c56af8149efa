"""Jobs from submission to recorded result, through queue, gateway and backend."""
