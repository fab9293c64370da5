//! Element types of tensors, with their names and numbers in every format that we read or write.

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// IEEE half precision.
    Float16,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
    /// Byte strings of any length.
    String,
    /// Real and imaginary part in single precision.
    Complex64,
    /// Real and imaginary part in double precision.
    Complex128,
}

/// Every supported type, in the order of the tables below.
pub const ALL: [DType; 15] = [
    DType::Bool,
    DType::Int8,
    DType::Int16,
    DType::Int32,
    DType::Int64,
    DType::UInt8,
    DType::UInt16,
    DType::UInt32,
    DType::UInt64,
    DType::Float16,
    DType::Float32,
    DType::Float64,
    DType::String,
    DType::Complex64,
    DType::Complex128,
];

/// Of each type, in the order of `ALL`: numpy's name, the number in TensorFlow's `DataType`, bytes, TensorFlow's constant.
const TABLE: [(&str, u64, usize, &str); 15] = [
    ("bool", 10, 1, "DT_BOOL"),
    ("int8", 6, 1, "DT_INT8"),
    ("int16", 5, 2, "DT_INT16"),
    ("int32", 3, 4, "DT_INT32"),
    ("int64", 9, 8, "DT_INT64"),
    ("uint8", 4, 1, "DT_UINT8"),
    ("uint16", 17, 2, "DT_UINT16"),
    ("uint32", 22, 4, "DT_UINT32"),
    ("uint64", 23, 8, "DT_UINT64"),
    ("float16", 19, 2, "DT_HALF"),
    ("float32", 1, 4, "DT_FLOAT"),
    ("float64", 2, 8, "DT_DOUBLE"),
    ("string", 7, 0, "DT_STRING"),
    ("complex64", 8, 8, "DT_COMPLEX64"),
    ("complex128", 18, 16, "DT_COMPLEX128"),
];

/// The number of bfloat16 in TensorFlow's `DataType`, which no tensor of ours has; it is taken where floats are asked for.
pub const BFLOAT16: u64 = 14;

/// Names of the `DataType` numbers that we refuse.
const UNSUPPORTED: [(u64, &str); 14] = [
    (11, "qint8"),
    (12, "quint8"),
    (13, "qint32"),
    (BFLOAT16, "bfloat16"),
    (15, "qint16"),
    (16, "quint16"),
    (20, "resource"),
    (21, "variant"),
    (24, "float8_e5m2"),
    (25, "float8_e4m3fn"),
    (26, "float8_e4m3fnuz"),
    (27, "float8_e4m3b11fnuz"),
    (28, "float8_e5m2fnuz"),
    (29, "int4"),
];

impl DType {
    /// The type with this numpy name, or `string`.
    pub fn from_name(name: &str) -> Option<DType> {
        ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// The type with this number in TensorFlow's `DataType`.
    pub fn from_tensorflow(number: u64) -> Option<DType> {
        ALL.into_iter().find(|dtype| dtype.tensorflow() == number)
    }

    /// numpy's name; `string` for byte strings.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].0
    }

    /// The number in TensorFlow's `DataType`.
    #[inline]
    pub fn tensorflow(self) -> u64 {
        TABLE[self as usize].1
    }

    /// Bytes per element; 0 for strings, which have no fixed size.
    #[inline]
    pub fn size(self) -> usize {
        TABLE[self as usize].2
    }

    /// Whether its elements are numbers of one part.
    pub fn is_number(self) -> bool {
        !matches!(self, DType::Bool | DType::String) && !self.is_complex()
    }

    /// Whether its elements have a real and an imaginary part.
    #[inline]
    pub fn is_complex(self) -> bool {
        matches!(self, DType::Complex64 | DType::Complex128)
    }

    /// Whether TensorFlow Serving's JSON has a form for its elements.
    #[inline]
    pub fn has_json(self) -> bool {
        self != DType::Float16 && !self.is_complex()
    }

    /// Whether it is a floating-point type.
    #[inline]
    pub fn is_float(self) -> bool {
        matches!(self, DType::Float16 | DType::Float32 | DType::Float64)
    }
}

/// TensorFlow's own name for a type, such as `float`, as its messages spell it.
pub fn tensorflow_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Float16 => "half",
        DType::Float32 => "float",
        DType::Float64 => "double",
        other => other.name(),
    }
}

/// TensorFlow's own name for a type by its number in `DataType`; none for a number that is no type of a tensor.
pub fn tensorflow_name(number: u64) -> Option<&'static str> {
    let unsupported = || UNSUPPORTED.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
    DType::from_tensorflow(number).map(tensorflow_type).or_else(unsupported)
}

/// TensorFlow's enum constant for a type, such as `DT_FLOAT`, as its JSON metadata spells it.
pub fn tensorflow_constant(dtype: DType) -> &'static str {
    TABLE[dtype as usize].3
}
