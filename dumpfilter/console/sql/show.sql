-- The SHOW statements that are SELECTs. In each paragraph, the comments are the syntax of a statement (see grammar.py),
-- and the text below them is the SELECT. {schema} and {name} are those of the statement, and {like} is the pattern of
-- LIKE in parentheses. LIKE compares the first column. A console has no triggers, indexes or similar objects, but
-- client programs ask for them.

-- SHOW DATABASES|SCHEMAS [condition:condition]
SELECT SCHEMA_NAME AS `Database{like}` FROM information_schema.schemata

-- SHOW [STORAGE] ENGINES [condition:condition]
SELECT ENGINE AS Engine, SUPPORT AS Support, COMMENT AS Comment, TRANSACTIONS AS Transactions, XA AS XA,
  SAVEPOINTS AS Savepoints
FROM information_schema.engines

-- SHOW CHARSET [condition:condition]
-- SHOW CHARACTER SET [condition:condition]
SELECT CHARACTER_SET_NAME AS Charset, DESCRIPTION AS Description, DEFAULT_COLLATE_NAME AS `Default collation`,
  MAXLEN AS Maxlen
FROM information_schema.character_sets

-- SHOW COLLATION [condition:condition]
SELECT COLLATION_NAME AS Collation, CHARACTER_SET_NAME AS Charset, ID + 0 AS Id, IS_DEFAULT AS `Default`,
  IS_COMPILED AS Compiled, SORTLEN AS Sortlen, PAD_ATTRIBUTE AS Pad_attribute
FROM information_schema.collations

-- SHOW [GLOBAL|SESSION|LOCAL] VARIABLES [condition:condition]
SELECT Variable_name, Value FROM `@`.variables

-- SHOW [GLOBAL|SESSION|LOCAL] STATUS [condition:condition]
SELECT Variable_name, Value FROM `@`.status

-- SHOW PROCESSLIST [condition:condition]
SELECT Id + 0 AS Id, User, Host, db, Command, Time + 0 AS Time, State, LEFT(Info, 100) AS Info FROM `@`.processlist

-- SHOW FULL PROCESSLIST [condition:condition]
SELECT Id + 0 AS Id, User, Host, db, Command, Time + 0 AS Time, State, Info FROM `@`.processlist

-- SHOW [EXTENDED] TABLES [FROM|IN schema:identifier] [condition:condition]
SELECT TABLE_NAME AS `Tables_in_{schema}{like}` FROM information_schema.tables WHERE TABLE_SCHEMA = '{schema}'

-- SHOW [EXTENDED] FULL TABLES [FROM|IN schema:identifier] [condition:condition]
SELECT TABLE_NAME AS `Tables_in_{schema}{like}`, TABLE_TYPE AS Table_type
FROM information_schema.tables WHERE TABLE_SCHEMA = '{schema}'

-- SHOW TABLE STATUS [FROM|IN schema:identifier] [condition:condition]
SELECT TABLE_NAME AS Name, ENGINE AS Engine, VERSION + 0 AS Version, ROW_FORMAT AS Row_format, TABLE_ROWS AS `Rows`,
  TABLE_COLLATION AS Collation, TABLE_COMMENT AS Comment
FROM information_schema.tables WHERE TABLE_SCHEMA = '{schema}'

-- SHOW [EXTENDED] COLUMNS|FIELDS FROM|IN *:table [condition:condition]
-- DESCRIBE|DESC|EXPLAIN *:table
SELECT COLUMN_NAME AS Field, COLUMN_TYPE AS Type, IS_NULLABLE AS `Null`, COLUMN_KEY AS `Key`,
  COLUMN_DEFAULT AS `Default`, EXTRA AS Extra
FROM information_schema.columns WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{name}'

-- SHOW [EXTENDED] FULL COLUMNS|FIELDS FROM|IN *:table [condition:condition]
SELECT COLUMN_NAME AS Field, COLUMN_TYPE AS Type, COLLATION_NAME AS Collation, IS_NULLABLE AS `Null`,
  COLUMN_KEY AS `Key`, COLUMN_DEFAULT AS `Default`, EXTRA AS Extra, PRIVILEGES AS Privileges,
  COLUMN_COMMENT AS Comment
FROM information_schema.columns WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{name}'

-- SHOW CREATE DATABASE|SCHEMA schema:identifier
SELECT '{schema}' AS `Database`,
  CONCAT('CREATE DATABASE `{schema}` /', '*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */')
    AS `Create Database`

-- SHOW CREATE TABLE *:table
SELECT '{name}' AS `Table`,
  CONCAT(
    'CREATE TABLE `{name}` (\n',
    GROUP_CONCAT(
      CONCAT('  `', COLUMN_NAME, '` ', COLUMN_TYPE, IF(COLUMN_TYPE = 'longtext', '', ' DEFAULT NULL'))
      SEPARATOR ',\n'
    ),
    '\n) ENGINE=PERFORMANCE_SCHEMA DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci'
  ) AS `Create Table`
FROM information_schema.columns WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{name}'

-- SHOW TRIGGERS :rest
SELECT '' AS `Trigger`, '' AS Event, '' AS `Table`, '' AS Statement, '' AS Timing, '' AS Created, '' AS sql_mode,
  '' AS Definer
LIMIT 0

-- SHOW EVENTS :rest
SELECT '' AS Db, '' AS Name, '' AS Definer, '' AS `Time zone`, '' AS Type, '' AS `Execute at`, '' AS Status LIMIT 0

-- SHOW PROCEDURE|FUNCTION :rest
SELECT '' AS Db, '' AS Name, '' AS Type, '' AS Definer, '' AS Modified, '' AS Created, '' AS Security_type,
  '' AS Comment
LIMIT 0

-- SHOW PLUGINS :rest
SELECT '' AS Name, '' AS Status, '' AS Type, '' AS Library, '' AS License LIMIT 0

-- SHOW OPEN :rest
SELECT '' AS `Database`, '' AS `Table`, '' AS In_use, '' AS Name_locked LIMIT 0

-- SHOW INDEX|INDEXES|KEYS :rest
SELECT '' AS `Table`, '' AS Non_unique, '' AS Key_name, '' AS Seq_in_index, '' AS Column_name, '' AS Collation,
  '' AS Cardinality
LIMIT 0
