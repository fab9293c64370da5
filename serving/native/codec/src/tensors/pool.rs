//! Reuses the memory of batches: a leased column returns to its pool when its last user drops it, which may be numpy.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dtype::DType;
use crate::tensors::column::{Column, Words};

/// A column that goes back to its pool when dropped.
#[derive(Debug)]
pub struct Lease {
    column: Column,
    home: Option<(Arc<ColumnPool>, usize)>,
}

impl Lease {
    /// A column that belongs to no pool.
    pub fn unpooled(column: Column) -> Lease {
        Lease { column, home: None }
    }
}

impl Deref for Lease {
    type Target = Column;
    fn deref(&self) -> &Column {
        &self.column
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Column {
        &mut self.column
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((pool, index)) = self.home.take() {
            let column = std::mem::replace(&mut self.column, Column::Raw(Words::default()));
            pool.give_back(index, column);
        }
    }
}

/// Columns of one signature's inputs that are free to be written again.
#[derive(Debug)]
pub struct ColumnPool {
    dtypes: Vec<DType>,
    free: Mutex<Vec<Vec<Column>>>,
}

/// Free columns kept per input, and the largest that is worth keeping.
const KEPT: usize = 8;
const KEPT_BYTES: usize = 1 << 20;

impl ColumnPool {
    /// A pool for inputs of these types.
    pub fn new(dtypes: Vec<DType>) -> Arc<ColumnPool> {
        let free = dtypes.iter().map(|_| Vec::new()).collect();
        Arc::new(ColumnPool { dtypes, free: Mutex::new(free) })
    }

    /// One empty column per input, used ones first.
    pub fn lease(self: &Arc<ColumnPool>) -> Vec<Lease> {
        let mut free = self.free();
        let take = |(index, dtype): (usize, &DType)| Lease {
            column: free[index].pop().unwrap_or_else(|| Column::new(*dtype)),
            home: Some((self.clone(), index)),
        };
        self.dtypes.iter().enumerate().map(take).collect()
    }

    /// A panic elsewhere must not take the pool down too.
    fn free(&self) -> MutexGuard<'_, Vec<Vec<Column>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, index: usize, mut column: Column) {
        if column.capacity() <= KEPT_BYTES {
            column.truncate(0);
            let mut free = self.free();
            if free[index].len() < KEPT {
                free[index].push(column);
            }
        }
    }
}
