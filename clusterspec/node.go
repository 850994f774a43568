package clusterspec

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

	"github.com/norn-scheduler/norn/unit"
)

// maxDepth is how deep brackets and lists may be nested; the deepest that a
// description needs is four.
const maxDepth = 20

// parseYAML reads one YAML document. It refuses what a description does not
// need and what could make a short file large or deep: anchors, aliases, tags,
// directives, several documents.
func parseYAML(text []byte) (ast.Node, error) {
	if err := checkTokens(lexer.Tokenize(string(text))); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.CommentGroupType {
			continue
		}
		if body != nil {
			return nil, wrong(doc.Body, "a second document; a cluster is one")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, fmt.Errorf("the file is empty")
	}
	return body, nil
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

// wrong is an error about a node of the document, with its place.
func wrong(n ast.Node, format string, args ...any) error {
	return &yaml.SyntaxError{Message: fmt.Sprintf(format, args...), Token: n.GetToken()}
}

// located turns an error about a token into one that starts with the name of the
// file, the line and the column, and shows the line.
func located(name string, text []byte, err error) error {
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

// setter takes the value of a key.
type setter func(ast.Node) error

// keys are the keys that a mapping may have.
type keys map[string]setter

// mapping hands each value of a mapping to the setter of its key. An unknown
// key is an error that lists the known ones.
func mapping(n ast.Node, what string, known keys) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return wrong(n, "%s is written as keys and values", what)
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
			return wrong(it.Key(), "%s has no key %q; known are: %s", what, key.Value, strings.Join(names, ", "))
		}
		if it.Value() == nil {
			return wrong(it.Key(), "%s has no value", key.Value)
		}
		if err := set(it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// list hands each entry of a list to a setter.
func list(what string, set setter) setter {
	return func(n ast.Node) error {
		s, ok := n.(*ast.SequenceNode)
		if !ok {
			return wrong(n, "%s are written as a list", what)
		}
		for _, entry := range s.Values {
			if err := set(entry); err != nil {
				return err
			}
		}
		return nil
	}
}

// scalar is the text of a value as it is written, without quotes.
func scalar(n ast.Node) (string, error) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", wrong(n, "the value is missing")
	}
	return "", wrong(n, "a single value is wanted here")
}

// value makes a setter from a function that reads text.
func value[T any](v *T, parse func(string) (T, error)) setter {
	return func(n ast.Node) error {
		text, err := scalar(n)
		if err != nil {
			return err
		}
		if *v, err = parse(text); err != nil {
			return wrong(n, "%v", err)
		}
		return nil
	}
}

func text(v *string) setter {
	return value(v, func(s string) (string, error) { return s, nil })
}

func number(v *int, least, most int) setter {
	return value(v, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%q: write a whole number from %d to %d", s, least, most)
		}
		return n, nil
	})
}

func decimal(v *float64) setter {
	return value(v, func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", s)
		}
		return f, nil
	})
}

func yes(v *bool) setter {
	return value(v, func(s string) (bool, error) {
		if s != "true" && s != "false" {
			return false, fmt.Errorf("%q: write true or false", s)
		}
		return s == "true", nil
	})
}

func amount(v *unit.Bytes) setter { return value(v, unit.ParseBytes) }

func milli(v *unit.Milli) setter { return value(v, unit.ParseMilli) }

func duration(v *time.Duration) setter { return value(v, unit.ParseSeconds) }

// choice reads one of several names, in the order of their values.
func choice[T ~uint8](v *T, names ...string) setter {
	return value(v, func(s string) (T, error) {
		for i, name := range names {
			if s == name {
				return T(i), nil
			}
		}
		return 0, fmt.Errorf("%q: write one of %s", s, strings.Join(names, ", "))
	})
}
