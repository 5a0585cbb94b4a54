//! From a question to an answer, as messages. Pure.

use std::collections::BTreeSet;

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, CNAME, PTR, SOA, SRV, TXT},
    },
};

use super::zone::{Data, Found, Zone, canonical};

/// How long an answer may be remembered, in seconds: pods come and go.
const TTL: u32 = 5;
/// Aliases that are followed for one question.
const ALIASES_MAX: usize = 8;
/// What fits into one datagram on every bridge, for clients that say how much they take.
pub const DATAGRAM_MAX: u16 = 4096;

/// What to do with a question.
#[derive(Debug)]
pub enum Reply {
    Answer(Message),
    /// The question is to be asked elsewhere, as it is.
    Forward,
    /// The answer so far ends with an alias of a name elsewhere, which is to be asked for.
    Follow {
        answer: Message,
        target: Name,
    },
}

impl Zone {
    /// Answers a request.
    pub fn reply(&self, request: &Message) -> Reply {
        let mut answer = response_to(request);
        let code = match (request.metadata.op_code, request.queries.as_slice()) {
            (OpCode::Query, [query]) if query.query_class() == DNSClass::IN => return self.reply_to(query, answer),
            (OpCode::Query, [_]) => ResponseCode::Refused,
            (OpCode::Query, _) => ResponseCode::FormErr,
            _ => ResponseCode::NotImp,
        };
        answer.metadata.response_code = code;
        Reply::Answer(answer)
    }

    fn reply_to(&self, query: &Query, mut answer: Message) -> Reply {
        let mut owner = query.name().clone();
        for _ in 0..ALIASES_MAX {
            let (data, apex) = match self.find(&key(&owner)) {
                Found::Elsewhere if answer.answers.is_empty() => return Reply::Forward,
                Found::Elsewhere => return Reply::Follow { answer, target: owner },
                Found::Nothing { apex } => {
                    answer.metadata.response_code = ResponseCode::NXDomain;
                    answer.authorities.extend(authority(apex));
                    return Reply::Answer(answer);
                }
                Found::Data { data, apex } => (data, apex),
            };
            let alias = data.iter().find_map(|data| if let Data::Alias(target) = data { name(target) } else { None });
            match alias.filter(|_| !matches!(query.query_type(), RecordType::CNAME | RecordType::ANY)) {
                Some(target) => {
                    answer.answers.push(Record::from_rdata(owner, TTL, RData::CNAME(CNAME(target.clone()))));
                    owner = target;
                }
                None => return Reply::Answer(self.with_data(answer, query, &owner, (data, apex))),
            }
        }
        answer.metadata.response_code = ResponseCode::ServFail;
        Reply::Answer(answer)
    }

    fn with_data(&self, mut answer: Message, query: &Query, owner: &Name, found: (&BTreeSet<Data>, &str)) -> Message {
        let (data, apex) = found;
        let is_asked =
            |record: &Record| query.query_type() == RecordType::ANY || record.record_type() == query.query_type();
        let mut records: Vec<Record> = data.iter().filter_map(|data| record(owner, data)).filter(is_asked).collect();
        if records.is_empty() {
            answer.authorities.extend(authority(apex));
            return answer;
        }
        // Many clients take the first: the number of the question spreads them over all.
        let first = usize::from(answer.metadata.id) % records.len();
        records.rotate_left(first);
        answer.additionals = self.addresses_of_targets(&records);
        answer.answers.extend(records);
        answer
    }

    fn addresses_of_targets(&self, records: &[Record]) -> Vec<Record> {
        let targets = records
            .iter()
            .filter_map(|record| if let RData::SRV(service) = &record.data { Some(&service.target) } else { None });
        let unique: BTreeSet<&Name> = targets.collect();
        let addresses = unique.into_iter().flat_map(|target| match self.find(&key(target)) {
            Found::Data { data, .. } => data.iter().filter_map(|data| record(target, data)).collect(),
            _ => Vec::new(),
        });
        addresses.filter(|record| record.record_type() == RecordType::A).collect()
    }
}

/// Begins an answer to a request.
pub fn response_to(request: &Message) -> Message {
    let mut answer = Message::new(request.metadata.id, MessageType::Response, request.metadata.op_code);
    answer.metadata.recursion_desired = request.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.metadata.authoritative = true;
    answer.queries.clone_from(&request.queries);
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(DATAGRAM_MAX);
        answer.edns = Some(edns);
    }
    answer
}

/// Returns the longest datagram that the client of a request takes.
pub fn datagram_max(request: &Message) -> usize {
    usize::from(request.max_payload().min(DATAGRAM_MAX))
}

/// Returns a message's bytes, cut to what the client takes; none if it cannot be written, which does not happen.
pub fn encode(message: &Message, longest: usize) -> Option<Vec<u8>> {
    let whole = message.to_vec().ok()?;
    if whole.len() <= longest { Some(whole) } else { message.truncate().to_vec().ok() }
}

/// Says who knows that there is nothing, and for how long that may be remembered.
fn authority(apex: &str) -> Option<Record> {
    let (server, person) = (name(&format!("ns.dns.{apex}"))?, name(&format!("hostmaster.{apex}"))?);
    let soa = SOA::new(server, person, 1, 7200, 1800, 86400, TTL);
    Some(Record::from_rdata(name(apex)?, TTL, RData::SOA(soa)))
}

fn record(owner: &Name, data: &Data) -> Option<Record> {
    let data = match data {
        Data::Address(address) => RData::A(A(*address)),
        Data::Alias(target) => RData::CNAME(CNAME(name(target)?)),
        Data::Service { port, target } => RData::SRV(SRV::new(0, 100, *port, name(target)?)),
        Data::Name(target) => RData::PTR(PTR(name(target)?)),
        Data::Text(text) => RData::TXT(TXT::new(vec![text.clone()])),
    };
    Some(Record::from_rdata(owner.clone(), TTL, data))
}

/// A name that no message can carry has no record.
fn name(text: &str) -> Option<Name> {
    Name::from_ascii(format!("{text}.")).ok()
}

fn key(name: &Name) -> String {
    canonical(&name.to_ascii())
}
