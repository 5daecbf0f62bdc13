-- Every command of master and slave, as the mysql and mariadb clients send it. The tests run it on the console of a
-- slave and on that of a master, which refuses what is not its own, and compare with data/script-*.txt.
-- 3307 stands for the master's port. A line "-- wait" waits until the slave has applied everything.

-- the slave's master, with WL#2387's rules among the options
CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 3307, SOURCE_HEARTBEAT_PERIOD = 1,
  SOURCE_CONNECT_RETRY = 1, REPLICATE-IGNORE-DB = 'hr' FOR CHANNEL 'ch1';
-- the same in old words, and in MariaDB's; effective rules (WL#2516)
CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 3307 FOR CHANNEL 'ch2';
CHANGE MASTER 'ch3' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 3307, DO = 'shop.%', IGNORE = '%.%',
  REWRITE = 'shop.orders->shop.orders2', IGNORE_SERVER_IDS = (7, 8), FILTER_ON = 'MASTER';

-- filters: of one channel, of all of them, and one that cannot be
CHANGE REPLICATION FILTER REPLICATE_DO_TABLE = (shop.orders, logs.events), REPLICATE_WILD_IGNORE_TABLE = ('%.tmp%'),
  REPLICATE_REWRITE_DB = ((shop, store)) FOR CHANNEL 'ch1';
CHANGE REPLICATION FILTER REPLICATE_DO_DB = (shop) FOR CHANNEL 'nosuch';
CHANGE REPLICATION FILTER REPLICATE_DO_DB = ;
SELECT CHANNEL_NAME, FILTER_NAME, FILTER_RULE, CONFIGURED_BY, COUNTER
  FROM performance_schema.replication_applier_filters ORDER BY CHANNEL_NAME, FILTER_NAME;

-- threads
START REPLICA IO_THREAD FOR CHANNEL 'ch1';
START SLAVE SQL_THREAD FOR CHANNEL 'ch1';
START REPLICA FOR CHANNEL 'ch3';
-- wait
START REPLICA FOR CHANNEL 'ch1';
SHOW WARNINGS;
-- the SQL thread must be stopped
CHANGE REPLICATION FILTER REPLICATE_DO_DB = (shop) FOR CHANNEL 'ch1';
STOP SLAVE SQL_THREAD FOR CHANNEL 'ch1';
CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = () FOR CHANNEL 'ch1';
START REPLICA SQL_THREAD UNTIL SQL_AFTER_GTIDS = '5a8b8d0a-e543-11f1-9c8d-02fc00000001:1-74' FOR CHANNEL 'ch1';
STOP REPLICA;

-- what there is to see on a slave
SHOW REPLICA STATUS FOR CHANNEL 'ch1'\G
SHOW SLAVE STATUS FOR CHANNEL 'ch2'\G
SELECT CHANNEL_NAME, FILTER_NAME, FILTER_RULE, CONFIGURED_BY, COUNTER
  FROM performance_schema.replication_applier_filters
  WHERE CHANNEL_NAME LIKE 'ch%' AND FILTER_RULE <> '' ORDER BY COUNTER DESC, CHANNEL_NAME, FILTER_NAME LIMIT 4;
SELECT CHANNEL_NAME, COUNT(*) AS filters, SUM(COUNTER) AS hits
  FROM performance_schema.replication_applier_filters GROUP BY CHANNEL_NAME ORDER BY CHANNEL_NAME;
SELECT * FROM performance_schema.replication_applier_global_filters;
SELECT CHANNEL_NAME, SERVICE_STATE, RECEIVED_TRANSACTION_SET, LAST_ERROR_NUMBER
  FROM performance_schema.replication_connection_status;
SELECT * FROM performance_schema.replication_applier_status;
SELECT CHANNEL_NAME, FILTER_ON, FILTER_SEMANTICS, IMPOSED_RULES, EVENTS_DROPPED, EVENTS_UNDECIDED FROM dumpfilter.channels;
SHOW RELAYLOG EVENTS FOR CHANNEL 'ch2';

-- what there is to see on a master
SHOW REPLICAS;
SHOW SLAVE HOSTS;
SHOW BINARY LOG STATUS;
SHOW MASTER STATUS;
SHOW BINARY LOGS;
SHOW BINLOG EVENTS IN 'bin.000003' LIMIT 5;
SELECT * FROM dumpfilter.slaves WHERE server_id = 0;
CHANGE BINLOG 'bin' TO DO = 'shop.%', IGNORE = '%.%';
SELECT * FROM dumpfilter.write_rules;
CHANGE BINLOG 'bin' TO DO = '', IGNORE = '';
SELECT * FROM dumpfilter.imposed_filters;
PURGE BINARY LOGS TO 'bin.000001';
PURGE BINARY LOGS TO 'bin.000009';
PURGE BINARY LOGS BEFORE '2000-01-01 00:00:00';

-- begin again, then without the channels
RESET REPLICA FOR CHANNEL 'ch1';
RESET SLAVE ALL FOR CHANNEL 'ch3';
RESET REPLICA ALL;
SHOW REPLICA STATUS;
SELECT COUNT(*) FROM performance_schema.replication_applier_filters;
