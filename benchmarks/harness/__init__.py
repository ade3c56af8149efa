"""What every measurement needs: fresh servers, systems in processes, fair rounds, honest statistics."""
