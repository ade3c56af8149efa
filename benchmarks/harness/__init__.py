"""What every measurement needs: fresh servers, contenders in processes, fair rounds, honest statistics."""
