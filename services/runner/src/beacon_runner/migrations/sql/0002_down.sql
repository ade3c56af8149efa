DROP TABLE paused_classes;
