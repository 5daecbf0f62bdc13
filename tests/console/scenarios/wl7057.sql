-- WL#7057: a) to e), and the SQL thread that must not run. One channel, the default one.
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='repl';
-- each command of the list
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1, db2);
CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB=(db3, db4);
CHANGE REPLICATION FILTER REPLICATE_DO_TABLE=(db1.t1, db1.t2);
CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE =(db1.t3, db1.t4);
CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE=('db1.t%', 'db2.t_');
CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE =('db3.t%', 'db4.%');
CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB =((db1, db2), (db3, db4));
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
SHOW REPLICA STATUS;
-- a) several in one command
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1), REPLICATE_IGNORE_TABLE=(db1.t1);
SELECT * FROM performance_schema.replication_applier_filters;
-- b) void brackets
CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ();
SELECT * FROM performance_schema.replication_applier_filters;
-- c) and d) a list replaces the rules of its kind, the others are unchanged
CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (db1.t9);
SELECT * FROM performance_schema.replication_applier_filters;
-- e) the last of several lists counts; the worklog's own text has a misspelt name
CHANGE REPLICATION FILTER REPLICATION_DO_DB=(db1,db2), REPLICATE_DO_DB=(db3,db4);
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1,db2), REPLICATE_DO_DB=(db3,db4);
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1), REPLICATE_IGNORE_DB=(x), REPLICATE_DO_DB=();
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB=((a,b),(a,c)), REPLICATE_REWRITE_DB=((d,e));
SELECT * FROM performance_schema.replication_applier_filters WHERE filter_name = 'REPLICATE_REWRITE_DB';
-- the opt_filter_def_list that can be NULL
CHANGE REPLICATION FILTER;
CHANGE REPLICATION FILTER ();
-- names that need quotes
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(`d``1`, `d,1`, `sel ect`, `ünï`, `a"b`, `a'b`);
CHANGE REPLICATION FILTER REPLICATE_DO_TABLE=(`d``1`.`t,1`, `a.b`.`c.d`, ü.`ß`);
CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE=('d''1.%', 'a\_b.t\%', "x.y");
CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB=((`a,b`,`c->d`), (`x y`, z));
SELECT * FROM performance_schema.replication_applier_filters;
SHOW REPLICA STATUS;
-- the SQL thread runs: nothing may change
START REPLICA SQL_THREAD;
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db7);
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db7) FOR CHANNEL '';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=();
SELECT * FROM performance_schema.replication_applier_filters WHERE filter_name = 'REPLICATE_DO_DB';
SELECT * FROM performance_schema.replication_applier_global_filters WHERE filter_name = 'REPLICATE_DO_DB';
-- of two channels only one runs
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch2';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db8) FOR CHANNEL 'ch2';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db9);
SELECT * FROM performance_schema.replication_applier_filters WHERE filter_name = 'REPLICATE_DO_DB';
STOP REPLICA SQL_THREAD FOR CHANNEL '';
-- the I/O thread may run
START REPLICA IO_THREAD FOR CHANNEL '';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db9);
SELECT * FROM performance_schema.replication_applier_filters WHERE filter_name = 'REPLICATE_DO_DB';
STOP REPLICA FOR CHANNEL '';
