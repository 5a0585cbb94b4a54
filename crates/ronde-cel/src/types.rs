//! The types of CEL as the checker sees them: how they are written, when one fits another, and type parameters.
//!
//! The rules are those of the real server's checker, down to which of two types that fit each other counts as the more
//! general one, because the messages of a failed check name the types.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::Arc,
};

/// A type.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::enum_variant_names, reason = "the type of types is called so in CEL")]
pub(super) enum Type {
    /// The type of a node that did not check; fits everything, so that one mistake is reported once.
    Error,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// An object of the schema.
    Object(Arc<Object>),
    /// A type of the Kubernetes library.
    Library(Library),
    /// A type variable.
    Param(Arc<str>),
}

/// The opaque types of the Kubernetes library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
}

/// The fields of an object in the schema, under their CEL names. Two objects are the same if their names are.
#[derive(Debug)]
pub(super) struct Object {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Library {
    pub fn name(self) -> &'static str {
        match self {
            Self::Quantity => "kubernetes.Quantity",
            Self::Url => "kubernetes.URL",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Semver => "kubernetes.Semver",
            Self::Format => "kubernetes.NamedFormat",
        }
    }
}

impl Type {
    pub fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// The type inside an optional one, and whether it was one.
    pub fn unwrap_optional(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    pub fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Null fits these, as in the first version of the language.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Object(_) | Self::Library(_) | Self::Optional(_) | Self::Duration | Self::Timestamp | Self::Null
        )
    }

    /// Whether one type equals the other or stands for more.
    fn is_equal_or_less_specific(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Param(_), _) | (Self::Type(_), Self::Type(_)) => true,
            (_, Self::Dyn | Self::Param(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.is_equal_or_less_specific(b),
            (Self::Map(ak, av), Self::Map(bk, bv)) => {
                ak.is_equal_or_less_specific(bk) && av.is_equal_or_less_specific(bv)
            }
            _ => self == other,
        }
    }

    /// The more general of two types that fit each other.
    pub fn most_general(self, other: Self) -> Self {
        if self.is_equal_or_less_specific(&other) { self } else { other }
    }

    /// Whether the type has more than `parts` parts.
    pub fn is_larger_than(&self, parts: usize) -> bool {
        fn count(of: &Type, left: usize) -> Option<usize> {
            let left = left.checked_sub(1)?;
            match of {
                Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => count(inner, left),
                Type::Map(key, value) => count(key, left).and_then(|left| count(value, left)),
                _ => Some(left),
            }
        }
        count(self, parts).is_none()
    }

    /// The same type with `rename` applied to every type variable in it.
    pub fn with_params(&self, rename: &mut dyn FnMut(&Arc<str>) -> Self) -> Self {
        match self {
            Self::Param(name) => rename(name),
            Self::List(item) => Self::list(item.with_params(rename)),
            Self::Optional(value) => Self::optional(value.with_params(rename)),
            Self::Type(inner) => Self::Type(Arc::new(inner.with_params(rename))),
            Self::Map(key, value) => Self::map(key.with_params(rename), value.with_params(rename)),
            other => other.clone(),
        }
    }

    /// The name without what is inside it, as `type(x)` shows it.
    pub fn name(&self) -> &str {
        match self {
            Self::Error => "!error!",
            Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Object(object) => &object.name,
            Self::Library(library) => library.name(),
            Self::Param(name) => name,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(inner) | Self::Optional(inner) | Self::Type(inner) => write!(f, "{}({inner})", self.name()),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            other => f.write_str(other.name()),
        }
    }
}

/// What the type variables of an expression stand for, as far as is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Substitutions {
    bound: BTreeMap<Arc<str>, Type>,
    /// What variables stood for before the attempt under way changed it.
    undo: Vec<(Arc<str>, Option<Type>)>,
    fresh: u32,
}

impl Substitutions {
    pub fn fresh(&mut self) -> Type {
        let mut name = String::from("_var");
        let _ = write!(name, "{}", self.fresh);
        self.fresh += 1;
        Type::Param(name.into())
    }

    /// The type with all known variables replaced, and the others by `dyn` if asked.
    pub fn apply(&self, of: &Type, unknown_to_dyn: bool) -> Type {
        of.with_params(&mut |name| match self.bound.get(name) {
            Some(bound) => self.apply(bound, unknown_to_dyn),
            None if unknown_to_dyn => Type::Dyn,
            None => Type::Param(Arc::clone(name)),
        })
    }

    /// Whether `from` fits `to`; what that tells about type variables is kept if it does.
    pub fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// [`Substitutions::assign`] for lists of equal length, all or nothing.
    pub fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.undo.clear();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to));
        if !fits {
            while let Some((name, before)) = self.undo.pop() {
                match before {
                    Some(before) => self.bound.insert(name, before),
                    None => self.bound.remove(&name),
                };
            }
        }
        fits
    }

    fn bind(&mut self, name: &Arc<str>, of: Type) {
        let before = self.bound.insert(Arc::clone(name), of);
        self.undo.push((Arc::clone(name), before));
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Param(name) = to {
            let (valid, known) = self.stands_for(from, name, to);
            if valid || known {
                return valid;
            }
        }
        if let Type::Param(name) = from {
            return self.stands_for(to, name, from).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.fits(ak, bk) && self.fits(av, bv),
            _ => from == to,
        }
    }

    /// Whether the variable `name` can stand for `other`, and whether it already stood for something.
    fn stands_for(&mut self, other: &Type, name: &Arc<str>, variable: &Type) -> (bool, bool) {
        if other == variable {
            return (true, true);
        }
        if let Some(bound) = self.bound.get(name).cloned() {
            if *other == bound {
                return (true, true);
            }
            if !self.fits(other, &bound) {
                return (false, true);
            }
            let general = other.clone().most_general(bound);
            if !self.occurs(name, &general) {
                self.bind(name, general);
            }
            return (true, true);
        }
        if self.occurs(name, other) {
            return (false, false);
        }
        self.bind(name, other.clone());
        (true, false)
    }

    /// Whether the variable is part of the type it would stand for.
    fn occurs(&self, name: &Arc<str>, within: &Type) -> bool {
        match within {
            Type::Param(other) if other == name => true,
            Type::Param(other) => self.bound.get(other).is_some_and(|bound| self.occurs(name, bound)),
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.occurs(name, inner),
            Type::Map(key, value) => self.occurs(name, key) || self.occurs(name, value),
            _ => false,
        }
    }
}
