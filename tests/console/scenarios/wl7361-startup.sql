-- WL#7361 A: how global and per-channel filters work together when the server starts.
-- server: --replicate-do-db=db1 --replicate-do-db=ch1:db2 --replicate-do-db=db3 --replicate-ignore-db=db4
-- server: --replicate-ignore-db=:db5
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL ''
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch1'
SELECT * FROM performance_schema.replication_applier_global_filters;
SELECT * FROM performance_schema.replication_applier_filters;
SHOW REPLICA STATUS FOR CHANNEL '';
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
