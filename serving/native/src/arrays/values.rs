//! One Python value as a tensor: cast where that loses nothing of its kind, and copied once.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyList, PyString};
use tidegate_codec::dtype::DType;
use tidegate_codec::signatures::TensorSpec;
use tidegate_codec::tensors::{Column, Strings, Tensor};

use crate::arrays::memory::copy_contiguous;
use crate::arrays::numpy::Numpy;

/// Who made a value, for messages about it.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// A model, as an output.
    Model,
    /// An embedding program, as an input.
    Caller,
}

impl Origin {
    fn subject(self, name: &str) -> String {
        match self {
            Origin::Model => format!("the model returned output '{name}'"),
            Origin::Caller => format!("the caller gave input '{name}'"),
        }
    }
}

/// Reads anything that numpy can make an array of.
pub(crate) fn read(spec: &TensorSpec, value: &Bound<'_, PyAny>, origin: Origin) -> PyResult<Tensor> {
    let numpy = Numpy::get(value.py())?;
    if let Origin::Caller = origin {
        check_unmasked(spec, value, numpy)?;
    }
    match spec.dtype {
        DType::String => read_strings(spec, value, numpy, origin),
        _ => read_numbers(spec, value, numpy, origin),
    }
}

/// What a mask hides is no value that a model could be asked with.
fn check_unmasked(spec: &TensorSpec, value: &Bound<'_, PyAny>, numpy: &Numpy) -> PyResult<()> {
    let (py, ndarray) = (value.py(), numpy.ndarray.bind(value.py()));
    if value.get_type().is(ndarray) || !value.is_instance(ndarray)? {
        return Ok(());
    }
    if py.import("numpy.ma")?.call_method1("is_masked", (value,))?.is_truthy()? {
        let subject = Origin::Caller.subject(&spec.name);
        return Err(PyTypeError::new_err(format!(
            "{subject} with masked elements, which have no value: fill them, as with numpy.ma.filled"
        )));
    }
    Ok(())
}

fn read_numbers(spec: &TensorSpec, value: &Bound<'_, PyAny>, numpy: &Numpy, origin: Origin) -> PyResult<Tensor> {
    let py = value.py();
    let wanted = numpy.dtype(spec.dtype).bind(py);
    let is_array = value.is_instance(numpy.ndarray.bind(py))?;
    let ready = is_array && value.getattr("dtype")?.is(wanted);
    if let Some(output) = if ready { copy_contiguous(value) } else { None } {
        return Ok(output);
    }
    let array = if is_array { value.clone() } else { numpy.asarray.bind(py).call1((value,))? };
    let cast = cast(spec, &array, wanted, numpy, origin)?;
    let contiguous = numpy.ascontiguousarray.bind(py).call1((&cast,))?;
    // ascontiguousarray turns a scalar into a row; the shape that counts is the model's own.
    let scalar = cast.getattr("ndim")?.extract::<usize>()? == 0;
    let copied = copy_contiguous(&contiguous);
    let own = |copy: Tensor| if scalar { Tensor { shape: Vec::new(), ..copy } } else { copy };
    copied.map(own).ok_or_else(|| {
        let (subject, kind) = (origin.subject(&spec.name), spec.dtype.name());
        PyTypeError::new_err(format!("{subject}, which cannot be read as an array of {kind}"))
    })
}

/// Floats may change width, whole numbers become floats or other whole numbers that hold the same values.
fn cast<'py>(
    spec: &TensorSpec,
    array: &Bound<'py, PyAny>,
    wanted: &Bound<'py, PyAny>,
    numpy: &Numpy,
    origin: Origin,
) -> PyResult<Bound<'py, PyAny>> {
    let found = array.getattr("dtype")?;
    if found.eq(wanted)? {
        return Ok(array.clone());
    }
    let can_cast =
        |rule: &str| -> PyResult<bool> { numpy.can_cast.bind(array.py()).call1((&found, wanted, rule))?.extract() };
    let (subject, want) = (origin.subject(&spec.name), spec.dtype.name());
    if !can_cast("same_kind")? {
        return Err(PyTypeError::new_err(format!("{subject} of dtype {found}, which does not become {want}")));
    }
    let whole = !spec.dtype.is_float() && !spec.dtype.is_complex();
    if let (Origin::Caller, false) = (origin, whole || can_cast("safe")?) {
        return cast_finite(spec, array, wanted, numpy);
    }
    let cast = array.call_method1("astype", (wanted,))?;
    if whole && !can_cast("safe")? && !cast.eq_elements(array)? {
        return Err(PyTypeError::new_err(format!("{subject} of dtype {found} with values that do not fit {want}")));
    }
    Ok(cast)
}

/// Floats of another width, rounded; an error where a number of the caller's would become infinite.
fn cast_finite<'py>(
    spec: &TensorSpec,
    array: &Bound<'py, PyAny>,
    wanted: &Bound<'py, PyAny>,
    numpy: &Numpy,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let (isfinite, want) = (numpy.isfinite.bind(py), spec.dtype.name());
    let ignored = [("over", "ignore")].into_py_dict(py)?;
    let state = numpy.errstate.bind(py).call((), Some(&ignored))?;
    state.call_method0("__enter__")?;
    let cast = array.call_method1("astype", (wanted,));
    state.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    let cast = cast?;
    let finite = isfinite.call1((&cast,))?;
    if finite.call_method0("all")?.is_truthy()? || finite.eq_elements(&isfinite.call1((array,))?)? {
        return Ok(cast);
    }
    let (subject, found) = (Origin::Caller.subject(&spec.name), array.getattr("dtype")?);
    Err(PyTypeError::new_err(format!("{subject} of dtype {found} with values beyond the largest {want}")))
}

trait EqElements {
    fn eq_elements(&self, other: &Self) -> PyResult<bool>;
}

impl EqElements for Bound<'_, PyAny> {
    fn eq_elements(&self, other: &Self) -> PyResult<bool> {
        self.rich_compare(other, pyo3::basic::CompareOp::Eq)?.call_method0("all")?.extract()
    }
}

fn read_strings(spec: &TensorSpec, value: &Bound<'_, PyAny>, numpy: &Numpy, origin: Origin) -> PyResult<Tensor> {
    let py = value.py();
    let array = numpy.asarray.bind(py).call1((value, numpy.object.bind(py)))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let items = array.call_method0("ravel")?.call_method0("tolist")?;
    let mut strings = Strings::default();
    for item in items.cast::<PyList>()?.iter() {
        if let Ok(bytes) = item.cast::<PyBytes>() {
            strings.push(bytes.as_bytes());
        } else if let Ok(text) = item.cast::<PyString>() {
            strings.push(text.to_str()?.as_bytes());
        } else {
            let kind = item.get_type();
            return Err(PyTypeError::new_err(format!(
                "{} with an element of {kind}: strings must be bytes or str",
                origin.subject(&spec.name)
            )));
        }
    }
    Ok(Tensor { column: Column::Strings(strings), shape })
}
