//! Large blocks count as requests' memory until the thread that gives them back to the system has done so.

use std::sync::Arc;

use tidegate_engine::memory::Memory;

#[test]
fn a_block_counts_until_the_thread_drops_it_and_without_one_it_is_dropped_at_once() {
    let memory = Arc::new(Memory::new(1 << 30, 1 << 20));
    let freed = memory.disposal.open();
    let mut taken = memory.of_connection().reservation();
    taken.grow(100, 100).unwrap();
    taken.dispose(vec![0; 100]);
    memory.of_connection().dispose(vec![0; 7], 7);
    assert_eq!(memory.used(), 107);
    memory.disposal.close();
    let late = Arc::new(());
    memory.of_connection().dispose(late.clone(), 9);
    assert_eq!((memory.used(), Arc::strong_count(&late)), (107, 1));
    assert_eq!(freed.iter().count(), 2);
    assert_eq!(memory.used(), 0);
}
