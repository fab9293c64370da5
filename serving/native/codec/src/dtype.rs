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
}

/// Every supported type, in the order of the tables below.
pub const ALL: [DType; 13] = [
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
];

/// Names of TensorFlow's `DataType` numbers that we may have to refuse, beside those that we accept.
const TENSORFLOW_NAMES: [(u64, &str); 29] = [
    (1, "float32"),
    (2, "float64"),
    (3, "int32"),
    (4, "uint8"),
    (5, "int16"),
    (6, "int8"),
    (7, "string"),
    (8, "complex64"),
    (9, "int64"),
    (10, "bool"),
    (11, "qint8"),
    (12, "quint8"),
    (13, "qint32"),
    (14, "bfloat16"),
    (15, "qint16"),
    (16, "quint16"),
    (17, "uint16"),
    (18, "complex128"),
    (19, "float16"),
    (20, "resource"),
    (21, "variant"),
    (22, "uint32"),
    (23, "uint64"),
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
        match self {
            DType::Bool => "bool",
            DType::Int8 => "int8",
            DType::Int16 => "int16",
            DType::Int32 => "int32",
            DType::Int64 => "int64",
            DType::UInt8 => "uint8",
            DType::UInt16 => "uint16",
            DType::UInt32 => "uint32",
            DType::UInt64 => "uint64",
            DType::Float16 => "float16",
            DType::Float32 => "float32",
            DType::Float64 => "float64",
            DType::String => "string",
        }
    }

    /// The number in TensorFlow's `DataType`.
    pub fn tensorflow(self) -> u64 {
        match self {
            DType::Float32 => 1,
            DType::Float64 => 2,
            DType::Int32 => 3,
            DType::UInt8 => 4,
            DType::Int16 => 5,
            DType::Int8 => 6,
            DType::String => 7,
            DType::Int64 => 9,
            DType::Bool => 10,
            DType::UInt16 => 17,
            DType::Float16 => 19,
            DType::UInt32 => 22,
            DType::UInt64 => 23,
        }
    }

    /// Bytes per element; 0 for strings, which have no fixed size.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::Int8 | DType::UInt8 => 1,
            DType::Int16 | DType::UInt16 | DType::Float16 => 2,
            DType::Int32 | DType::UInt32 | DType::Float32 => 4,
            DType::Int64 | DType::UInt64 | DType::Float64 => 8,
            DType::String => 0,
        }
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

/// A name for any TensorFlow `DataType` number, for messages that refuse it.
pub fn tensorflow_name(number: u64) -> String {
    match TENSORFLOW_NAMES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("DataType {number}"),
    }
}

/// TensorFlow's enum constant for a type, such as `DT_FLOAT`, as its JSON metadata spells it.
pub fn tensorflow_constant(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "DT_BOOL",
        DType::Int8 => "DT_INT8",
        DType::Int16 => "DT_INT16",
        DType::Int32 => "DT_INT32",
        DType::Int64 => "DT_INT64",
        DType::UInt8 => "DT_UINT8",
        DType::UInt16 => "DT_UINT16",
        DType::UInt32 => "DT_UINT32",
        DType::UInt64 => "DT_UINT64",
        DType::Float16 => "DT_HALF",
        DType::Float32 => "DT_FLOAT",
        DType::Float64 => "DT_DOUBLE",
        DType::String => "DT_STRING",
    }
}
