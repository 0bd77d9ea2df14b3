"""The options of RocksDB, and the limits of its memory.

All stores of a process share one block cache and one budget for memtables. The block cache includes indexes and
filters. So RocksDB's memory does not grow with the number of tasks or restored records. `rocksdb` describes why both
column families of a store are flushed together, and why the write-ahead log is on. Source: `RocksDBStore.openDB`.
Differs from Kafka: in Kafka, each store has its own block cache of 50 MiB by default.

The function in `rocksdb.config.setter` can change these options for a store before the store is opened.
"""

from functools import cache

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, WriteBufferManager

_MIB = 1 << 20
BLOCK_CACHE_BYTES = 128 * _MIB
ALL_MEMTABLES_BYTES = 128 * _MIB
MEMTABLE_BYTES = 16 * _MIB
_MEMTABLES_PER_STORE = 3
# Each commit puts one entry of 30 bytes into the column family of offsets. If its memtable is full, the whole store is
# flushed. With this size, a store that commits ten times a second is flushed after more than ten minutes.
_OFFSETS_MEMTABLE_BYTES = 512 * 1024
_BLOCK_BYTES = 4096
_BLOOM_BITS_PER_KEY = 10
_BACKGROUND_JOBS = 2
_INFO_LOG_BYTES = _MIB
_INFO_LOG_FILES = 2


def store_options() -> Options:
    """Returns new options for one store, with the shared block cache and the shared memtable budget of the process."""
    tables = BlockBasedOptions()
    tables.set_block_cache(_block_cache())
    tables.set_block_size(_BLOCK_BYTES)
    tables.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_block_based_table_factory(tables)
    options.set_write_buffer_manager(_memtable_budget())
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_write_buffer_number(_MEMTABLES_PER_STORE)
    options.set_max_background_jobs(_BACKGROUND_JOBS)
    # The table cache has one shard instead of 64, because each shard needs memory in every store. One lock is enough:
    # reads do not use the locks, because RocksDB keeps all files open.
    options.set_table_cache_num_shard_bits(0)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_log_file_size(_INFO_LOG_BYTES)
    options.set_keep_log_file_num(_INFO_LOG_FILES)
    return options


def offset_options() -> Options:
    """Returns new options for the column family with a store's changelog offset."""
    tables = BlockBasedOptions()
    tables.set_block_cache(_block_cache())  # else each store would have one more cache, which takes 25 KB when empty
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(tables)
    options.set_write_buffer_manager(_memtable_budget())
    options.set_write_buffer_size(_OFFSETS_MEMTABLE_BYTES)
    return options


@cache
def _block_cache() -> Cache:
    # Not RocksDB's LRU cache. It has 64 shards of 2 MiB, and drops a larger entry at once. The filter of a file
    # with more than 1.7 million keys is such an entry, so each read would read the whole filter from the file: half a
    # millisecond, instead of 6 microseconds. The shards of this cache have at least 32 MiB. An estimated charge of 0
    # lets the table of the cache grow as needed.
    return Cache.new_hyper_clock_cache(BLOCK_CACHE_BYTES, estimated_entry_charge=0)


@cache
def _memtable_budget() -> WriteBufferManager:
    return WriteBufferManager(ALL_MEMTABLES_BYTES, False)
