//! `#[derive(Row)]` for tidegate plugins. Documented where it is used from: `tidegate_guest::Row`.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Field, Fields, LitStr, parse_macro_input, spanned::Spanned};

/// See `tidegate_guest::Row`.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let name = &input.ident;
    let target = attribute(&input.attrs, "target")?
        .ok_or_else(|| Error::new(name.span(), "a row needs its target: #[row(target = \"NAME\")]"))?;
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if !fields.named.is_empty() => &fields.named,
            other => return Err(Error::new(other.span(), "a row is a struct with named fields, one per column")),
        },
        _ => return Err(Error::new(name.span(), "a row is a struct with named fields, one per column")),
    };
    let idents = fields.iter().map(|field| &field.ident);
    let columns = fields.iter().map(column).collect::<syn::Result<Vec<_>>>()?;
    for (place, column) in columns.iter().enumerate() {
        if columns[..place].iter().any(|other| other.value() == column.value()) {
            return Err(Error::new(column.span(), format!("column {:?} is there twice", column.value())));
        }
    }
    let (generics, types, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::tidegate_guest::Row for #name #types #bounds {
            const TARGET: &'static str = #target;
            const COLUMNS: &'static [&'static str] = &[#(#columns),*];

            fn into_values(self) -> ::std::vec::Vec<::tidegate_guest::Value> {
                ::std::vec![#(::tidegate_guest::IntoValue::into_value(self.#idents)),*]
            }
        }
    })
}

/// A field's column: what `#[row(column = "…")]` says, else its own name.
fn column(field: &Field) -> syn::Result<LitStr> {
    if let Some(column) = attribute(&field.attrs, "column")? {
        return Ok(column);
    }
    let ident = field.ident.as_ref().ok_or_else(|| Error::new(field.span(), "a column needs a name"))?;
    let name = ident.to_string();
    Ok(LitStr::new(name.strip_prefix("r#").unwrap_or(&name), ident.span()))
}

/// The text of `#[row(KEY = "text")]`. Any other key is an error.
fn attribute(attributes: &[syn::Attribute], key: &str) -> syn::Result<Option<LitStr>> {
    let mut found = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident(key) {
                return Err(meta.error(format!("only `{key} = \"…\"` can stand here")));
            }
            let text: LitStr = meta.value()?.parse()?;
            if text.value().is_empty() {
                return Err(Error::new(text.span(), "a name cannot be empty"));
            }
            found = Some(text);
            Ok(())
        })?;
    }
    Ok(found)
}
