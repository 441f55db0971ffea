"""What this project makes of the schedule tests in a checkout of TVM."""
