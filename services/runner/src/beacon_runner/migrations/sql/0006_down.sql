DROP TABLE router_cancels;
