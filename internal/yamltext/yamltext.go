// Package yamltext reads YAML as people write it, strictly: every key is known
// or an error, every error shows its line, and nothing is taken that could make
// a short file large or deep.
//
// Nouns: a Setter takes the value of a key; Keys are the keys that a mapping may
// have; a fault is an error about one place of the text (Fault), which Locate
// turns into file, line and column.
package yamltext

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/param"
)

// maxDepth is how deep brackets and lists may be nested; the deepest that any
// file of Norn needs is four.
const maxDepth = 20

// Parse reads one YAML document; nil when there is nothing in it.
func Parse(text []byte) (ast.Node, error) {
	docs, err := Documents(text)
	switch {
	case err != nil || len(docs) == 0:
		return nil, err
	case len(docs) > 1:
		return nil, Fault(docs[1], "a second document; one is wanted")
	}
	return docs[0], nil
}

// Documents reads YAML documents, leaving out those in which nothing stands. It
// refuses anchors, aliases, tags and directives.
func Documents(text []byte) ([]ast.Node, error) {
	tokens := lexer.Tokenize(string(text))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	var docs []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType && doc.Body.Type() != ast.CommentGroupType {
			docs = append(docs, doc.Body)
		}
	}
	// The parser passes over what stands behind a document in which nothing does.
	if n, empty := inhabited(tokens); n > len(docs) && empty != nil {
		return nil, &yaml.SyntaxError{Message: "nothing stands between this line and the one like it before; leave it out", Token: empty}
	}
	return docs, nil
}

// inhabited counts the documents in which anything but comments stands, and
// finds the first line --- behind one in which nothing does.
func inhabited(tokens token.Tokens) (n int, empty *token.Token) {
	something, headers := false, 0
	for _, t := range tokens {
		switch t.Type {
		case token.DocumentHeaderType:
			if headers++; !something && headers > 1 && empty == nil {
				empty = t
			}
			something = false
		case token.CommentType, token.DocumentEndType:
		default:
			if !something {
				something = true
				n++
			}
		}
	}
	return n, empty
}

// checkTokens walks over the tokens before they are parsed, because the parser
// would follow any nesting.
func checkTokens(tokens token.Tokens) error {
	depth, row, line := 0, 0, 0
	for _, t := range tokens {
		first := t.Position.Line != line
		if first {
			row, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType:
			return &yaml.SyntaxError{Message: "anchors, aliases, tags and directives are not allowed here", Token: t}
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if depth == 0 {
				row++
			}
		}
		if depth > maxDepth || row > maxDepth || depth == 0 && first && t.Position.IndentNum > 8*maxDepth {
			return &yaml.SyntaxError{Message: "this is nested too deeply", Token: t}
		}
	}
	return nil
}

// Fault is an error about a node of the document.
func Fault(n ast.Node, format string, args ...any) error {
	return &yaml.SyntaxError{Message: fmt.Sprintf(format, args...), Token: n.GetToken()}
}

// Locate turns a fault into an error that starts with the name of the file, the
// line and the column, and shows the line. Any other error gets the name alone.
func Locate(name string, text []byte, err error) error {
	var at *yaml.SyntaxError
	if !errors.As(err, &at) || at.Token == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line, column := at.Token.Position.Line, at.Token.Position.Column
	shown := ""
	if lines := strings.Split(string(text), "\n"); line >= 1 && line <= len(lines) {
		runes := []rune(strings.TrimRight(lines[line-1], "\r"))
		from := max(0, min(column-1, len(runes))-60)
		shown = "\n    " + string(runes[from:min(len(runes), from+100)])
	}
	return fmt.Errorf("%s:%d:%d: %s%s", name, line, column, at.Message, shown)
}

// Setter takes the value of a key.
type Setter func(ast.Node) error

// Keys are the keys that a mapping may have.
type Keys map[string]Setter

// Mapping hands each value of a mapping to the setter of its key. An unknown
// key is an error that lists the known ones and says which may be meant; what
// is how the error calls the mapping, such as "a node".
func Mapping(n ast.Node, what string, known Keys) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return Fault(n, "%s is written as keys and values", what)
	}
	for it := m.MapRange(); it.Next(); {
		key := it.Key().GetToken()
		set, ok := known[key.Value]
		if !ok {
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			sort.Strings(names)
			return Fault(it.Key(), "%s has no key %q; known are: %s%s", what, key.Value, strings.Join(names, ", "), param.Near(key.Value, names))
		}
		if it.Value() == nil {
			return Fault(it.Key(), "%s has no value", key.Value)
		}
		if err := set(it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// List hands each entry of a list to a setter; what is how an error calls the
// entries, such as "nodes".
func List(what string, set Setter) Setter {
	return func(n ast.Node) error {
		s, ok := n.(*ast.SequenceNode)
		if !ok {
			return Fault(n, "%s are written as a list", what)
		}
		for _, entry := range s.Values {
			if err := set(entry); err != nil {
				return err
			}
		}
		return nil
	}
}

// Scalar is the text of a single value, without quotes.
func Scalar(n ast.Node) (string, error) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", Fault(n, "the value is missing")
	}
	return "", Fault(n, "a single value is wanted here")
}

// Value makes a setter from a function that reads text.
func Value[T any](v *T, parse func(string) (T, error)) Setter {
	return func(n ast.Node) error {
		text, err := Scalar(n)
		if err != nil {
			return err
		}
		if *v, err = parse(text); err != nil {
			return Fault(n, "%v", err)
		}
		return nil
	}
}

// Text takes any text.
func Text(v *string) Setter {
	return Value(v, func(s string) (string, error) { return s, nil })
}

// Int takes a whole number between least and most.
func Int(v *int, least, most int) Setter {
	return Value(v, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%q: write a whole number from %d to %d", s, least, most)
		}
		return n, nil
	})
}

// Bool takes true or false.
func Bool(v *bool) Setter {
	return Value(v, func(s string) (bool, error) {
		if s != "true" && s != "false" {
			return false, fmt.Errorf("%q: write true or false", s)
		}
		return s == "true", nil
	})
}

// Bytes takes an amount of memory.
func Bytes(v *unit.Bytes) Setter { return Value(v, unit.ParseBytes) }

// Milli takes a number of devices or cores.
func Milli(v *unit.Milli) Setter { return Value(v, unit.ParseMilli) }

// Duration takes a span of time.
func Duration(v *time.Duration) Setter { return Value(v, unit.ParseSeconds) }

// Choice takes one of several names, in the order of their values.
func Choice[T ~uint8](v *T, names ...string) Setter {
	return Value(v, func(s string) (T, error) {
		for i, name := range names {
			if s == name {
				return T(i), nil
			}
		}
		return 0, fmt.Errorf("%q: write one of %s", s, strings.Join(names, ", "))
	})
}
