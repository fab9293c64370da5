//! A `ModelInfer` request in any form: which model, what its client calls it, its inputs, and the outputs that it wants.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model_spec::{ModelSpec, VersionChoice};
use crate::open_inference::answer::{AnswerOutput, InferAnswer, OutputForm};
use crate::open_inference::classification::Classification;
use crate::open_inference::datatype;
use crate::open_inference::input::{InferData, InferInput};
use crate::open_inference::shared_memory::{OpenPlace, Place, Region};
use crate::open_inference::whole_body;
use crate::protobuf::wire::push_entry;
use crate::signatures::sequences::{SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START, Turn};
use crate::signatures::{InputTally, RequestRows, Signature};
use crate::status::Status;
use crate::tensors::{Lender, Page, Room};

/// The parameter by which a request names a signature; the protocol itself knows one way to call a model.
pub const SIGNATURE_NAME: &str = "signature_name";

/// The parameter by which a request asks for a priority, as in Triton.
pub const PRIORITY: &str = "priority";

/// The parameter by which a request says after how many microseconds its answer is worth nothing, as in Triton.
pub const TIMEOUT: &str = "timeout";

/// One output that a client asks for.
#[derive(Debug)]
pub struct WantedOutput<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// How it is to be sent, where the client says so.
    pub form: Option<OutputForm>,
    /// Labels of its largest values that are wanted instead of it, 0 for the output itself.
    pub classes: usize,
    /// Where it is to be written in shared memory.
    pub place: Option<Box<Place>>,
    /// The same, once its region was found.
    pub open: Option<OpenPlace>,
}

/// A request, borrowed from its message.
#[derive(Debug, Default)]
pub struct InferRequest<'a> {
    /// What the client calls this request; comes back with the answer.
    pub id: Cow<'a, str>,
    /// Empty for the default.
    pub signature_name: Cow<'a, str>,
    /// 1 is the highest, 0 the model's default.
    pub priority: u64,
    /// Microseconds after which its answer is worth nothing, 0 where it does not say.
    pub timeout_us: u64,
    /// How outputs are sent for which nothing else is said.
    pub form: OutputForm,
    /// Whether an answer without outputs is to follow the last message of a stream.
    pub empty_final: bool,
    /// Where in its sequence it is.
    pub turn: Turn<'a>,
    /// The message that it is borrowed from, where large inputs may keep it.
    pub lender: Lender<'a>,
    inputs: Vec<InferInput<'a>>,
    outputs: Vec<WantedOutput<'a>>,
}

impl<'a> InferRequest<'a> {
    /// When its answer is worth nothing any more, where it came at this time and without a timeout of its own has until the
    /// deadline.
    pub fn deadline(&self, received: Instant, deadline: Instant) -> Instant {
        match self.timeout_us {
            0 => deadline,
            micros => received.checked_add(Duration::from_micros(micros)).map_or(deadline, |own| own.min(deadline)),
        }
    }

    /// How long each message of its answer is waited for: not at all where the request has a timeout, which is for all of
    /// them.
    pub fn patience(&self, patience: Option<Duration>) -> Option<Duration> {
        patience.filter(|_| self.timeout_us == 0)
    }

    /// Adds an input, unless there are too many.
    pub fn push_input(&mut self, input: InferInput<'a>) -> Result<(), Status> {
        push_entry(&mut self.inputs, input, "inputs")
    }

    /// Adds an output that is wanted, unless there are too many.
    pub fn push_output(&mut self, output: WantedOutput<'a>) -> Result<(), Status> {
        push_entry(&mut self.outputs, output, "outputs")
    }

    /// The inputs so far, for what comes apart from them.
    pub fn inputs_mut(&mut self) -> &mut [InferInput<'a>] {
        &mut self.inputs
    }

    /// Which model, with the signature that the request names.
    pub fn spec<'s>(&'s self, name: &'s str, choice: VersionChoice<'s>) -> ModelSpec<'s> {
        ModelSpec { name, choice, signature_name: &self.signature_name }
    }

    /// An error where an output is wanted as bytes, which have no place in an answer of JSON alone.
    pub fn check_all_json(&self) -> Result<(), Status> {
        let form = |output: &WantedOutput<'_>| output.form.unwrap_or(self.form);
        let all = self.outputs.is_empty().then_some(self.form);
        if self.outputs.iter().map(form).chain(all).all(|form| form == OutputForm::Values) {
            return Ok(());
        }
        Err(Status::invalid(
            "outputs are wanted as binary data, which events cannot carry: leave out 'binary_data' and \
             'binary_data_output', or ask without header 'Accept: text/event-stream'",
        ))
    }

    /// What the answer is made of: the outputs that are wanted, all when none is named.
    pub fn answer(&self, signature: &Signature) -> Result<InferAnswer, Status> {
        let mut outputs: Vec<AnswerOutput> = Vec::with_capacity(signature.outputs.len());
        for wanted in &self.outputs {
            let Some(index) = signature.outputs.iter().position(|spec| spec.name == wanted.name) else {
                return Err(Status::invalid(format!(
                    "the model has no output '{}': it has {}",
                    wanted.name,
                    names(signature.outputs.iter().map(|spec| spec.name.as_str()))
                )));
            };
            if outputs.iter().any(|other| other.index == index) {
                return Err(Status::invalid(format!("output '{}' is asked for twice", wanted.name)));
            }
            let classification = match wanted.classes {
                0 => None,
                most => Some(Classification::of(most, signature, &signature.outputs[index])?),
            };
            let (form, place) = (wanted.form.unwrap_or(self.form), wanted.open.clone());
            outputs.push(AnswerOutput { index, form, classification, place });
        }
        if self.outputs.is_empty() {
            let output = |index| AnswerOutput { index, form: self.form, classification: None, place: None };
            outputs.extend((0..signature.outputs.len()).map(output));
        }
        let wanted = outputs.iter().map(|output| &signature.outputs[output.index]);
        datatype::check(signature.needed_inputs().chain(wanted))?;
        Ok(InferAnswer { id: self.id.as_ref().into(), outputs: outputs.into() })
    }

    /// Appends the inputs to the open batch. On error columns may hold a part: the caller truncates them.
    pub fn read_inputs(
        &self,
        signature: &Signature,
        page: &mut Page<'_>,
        max_bytes: usize,
    ) -> Result<RequestRows, Status> {
        let mut tally = InputTally::new(signature, page.shapes);
        let mut came = vec![false; signature.inputs.len()];
        for (position, sent) in self.inputs.iter().enumerate() {
            let alone;
            let input = match sent.data {
                InferData::Alone(body) => {
                    alone = whole_body::input(body, signature)?;
                    &alone
                }
                _ => sent,
            };
            let Some(index) = signature.input_index(input.name.as_bytes(), position) else {
                return Err(Status::invalid(format!(
                    "the model has no input '{}': it has {}",
                    input.name,
                    names(signature.inputs.iter().map(|spec| spec.name.as_str()))
                )));
            };
            if std::mem::replace(&mut came[index], true) {
                return Err(Status::invalid(format!("input '{}' is given twice", input.name)));
            }
            let (spec, column) = (&signature.inputs[index], &mut page.columns[index]);
            let found = input.read(spec, column, max_bytes, (page.room, self.lender))?;
            tally.note(index, found, page.shapes)?;
        }
        if signature.sequences {
            self.read_turn(signature, page, max_bytes, (&mut tally, &mut came))?;
        }
        let inputs = signature.inputs.iter().zip(&*signature.defaults).zip(&came);
        let missing = inputs.filter(|((_, default), came)| !**came && default.is_none());
        let missing: Vec<&str> = missing.map(|((spec, _), _)| spec.name.as_str()).collect();
        if !missing.is_empty() {
            return Err(Status::invalid(format!("the request lacks input {}", names(missing.into_iter()))));
        }
        let rows = tally.settle(page)?;
        rows.ok_or_else(|| Status::invalid("the request has no input: send those that the model's metadata names"))
    }
}

impl InferRequest<'_> {
    /// The sequence that it belongs to by a signature of sequences, without its other inputs; empty where it says none, or
    /// none that can be read.
    pub fn sequence(&self, signature: &Signature, room: &mut dyn Room, max_bytes: usize) -> Vec<u8> {
        let Some(input) = self.inputs.iter().find(|input| input.name == SEQUENCE_ID) else {
            return self.turn.id.as_bytes().to_vec();
        };
        signature.read_sequence_id(|index, column| {
            input.read(&signature.inputs[index], column, max_bytes, (room, Lender::default())).map(drop)
        })
    }

    /// Finds the regions of the inputs and outputs that are in shared memory; `find` gives regions by their names.
    pub fn open(&mut self, find: impl Fn(&str) -> Result<Arc<dyn Region>, Status>) -> Result<(), Status> {
        let inputs = self.inputs.iter_mut().map(|input| (&input.place, &mut input.open));
        for (place, open) in inputs.chain(self.outputs.iter_mut().map(|output| (&output.place, &mut output.open))) {
            if let Some(place) = place {
                *open = Some(OpenPlace { region: find(&place.region)?, place: (**place).clone() });
            }
        }
        Ok(())
    }

    /// Appends what the parameters say of its sequence, where no inputs do.
    fn read_turn(
        &self,
        signature: &Signature,
        page: &mut Page<'_>,
        max_bytes: usize,
        (tally, came): (&mut InputTally<'_>, &mut [bool]),
    ) -> Result<(), Status> {
        let Turn { id, start, end } = &self.turn;
        let mut text = (id.len() as u32).to_le_bytes().to_vec();
        text.extend_from_slice(id.as_bytes());
        let (start, end) = ([u8::from(*start)], [u8::from(*end)]);
        let told: [(&str, &str, &[u8]); 3] =
            [(SEQUENCE_ID, "BYTES", &text), (SEQUENCE_START, "BOOL", &start), (SEQUENCE_END, "BOOL", &end)];
        for (name, datatype, bytes) in told {
            let named = signature.inputs.iter().position(|spec| spec.name == name);
            let Some(index) = named.filter(|index| !came[*index]) else { continue };
            let mut input = InferInput::new(Cow::Borrowed(name));
            (input.datatype, input.data) = (Cow::Borrowed(datatype), InferData::Raw(bytes));
            let (spec, column) = (&signature.inputs[index], &mut page.columns[index]);
            let found = input.read(spec, column, max_bytes, (page.room, Lender::default()))?;
            came[index] = true;
            tally.note(index, found, page.shapes)?;
        }
        Ok(())
    }
}

fn names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// A version as its clients write it: nothing, its number, or a label.
pub fn version_choice(text: &str) -> Result<VersionChoice<'_>, Status> {
    if text.is_empty() {
        return Ok(VersionChoice::Any);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(VersionChoice::Label(text));
    }
    let number = text.parse().map_err(|_| Status::invalid(format!("version {text} is larger than any version's")))?;
    Ok(VersionChoice::Version(number))
}

/// The answer to a priority that is none.
#[cold]
pub(crate) fn wrong_priority() -> Status {
    Status::invalid(format!("parameter '{PRIORITY}' must be a whole number, 1 for the highest priority"))
}

/// The answer to a parameter that says nothing of a sequence.
#[cold]
pub(crate) fn wrong_turn(parameter: &str) -> Status {
    let wanted = if parameter == SEQUENCE_ID { "a whole number or a string" } else { "true or false" };
    Status::invalid(format!("parameter '{parameter}' must be {wanted}"))
}

/// The answer to a number that is none.
#[cold]
pub(crate) fn wrong_count(parameter: &str) -> Status {
    let unit = if parameter == TIMEOUT { "microseconds" } else { "labels" };
    Status::invalid(format!("parameter '{parameter}' must be a whole number of {unit}, 0 or more"))
}
