package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// jsonFormat reads and writes bodies.
func jsonFormat() huma.Format { return huma.Format{Marshal: encode, Unmarshal: decode} }

// encode writes a body, piece by piece if it is long. A value that cannot be
// written is a mistake in norn: encode panics, and if the value is in the first
// piece, nothing has been sent.
func encode(w io.Writer, v any) error {
	out := bufio.NewWriterSize(body{w}, 64<<10)
	if err := jsonv2.MarshalWrite(out, v, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false)); err != nil {
		panic(err)
	}
	out.WriteByte('\n')
	return out.Flush()
}

// body is what an answer is written to.
type body struct{ io.Writer }

// Write ends the request where the client does not take the answer.
func (w body) Write(b []byte) (int, error) {
	if _, err := w.Writer.Write(b); err != nil {
		panic(http.ErrAbortHandler)
	}
	return len(b), nil
}

// decode reads a body. Huma calls it twice: with an *any, to hold the body
// against the schema, then with what the handler wants.
func decode(data []byte, v any) error {
	if _, first := v.(*any); first {
		if err := sound(data); err != nil {
			return err
		}
	}
	err := json.Unmarshal(data, v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return noJSON(err)
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return errors.New(strings.TrimPrefix(typ.Field+": "+typ.Value+" is not what belongs here, or out of range", ": "))
	}
	return err
}

// sound refuses what decoders understand in different ways, or not at all: text
// that is no UTF-8, fields that are there twice, NUL in text, which no program
// takes, and nesting without end.
func sound(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the body is no UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []level
	for {
		token, err := d.Token()
		if err == io.EOF && len(open) == 0 && d.InputOffset() > 0 {
			return nil
		}
		if err != nil {
			return noJSON(err)
		}
		if text, ok := token.(string); ok && strings.ContainsRune(text, 0) {
			return errors.New("the body has text with a NUL character")
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			open = append(open, level{object: token == json.Delim('{')})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if len(open) > 0 && open[len(open)-1].name(token) {
				return fmt.Errorf("the field %s is there twice", clip(fmt.Sprint(token), 100))
			}
			continue
		}
		if len(open) > maxDepth {
			return fmt.Errorf("the body is nested deeper than %d", maxDepth)
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			if len(open) > 0 {
				open[len(open)-1].valueEnded()
			}
		}
	}
}

func noJSON(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the body ends in the middle of its JSON")
	}
	return fmt.Errorf("the body is no JSON: %w", err)
}

// level is an object or an array that is being read.
type level struct {
	object bool
	value  bool // a field's name was read, its value comes next
	seen   map[string]bool
}

// name takes in a name or a simple value, and tells whether it is a name that
// was there before.
func (l *level) name(token json.Token) (twice bool) {
	if !l.object {
		return false
	}
	if l.value {
		l.value = false
		return false
	}
	text := token.(string) // the decoder accepts nothing else
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	twice = l.seen[text]
	l.seen[text], l.value = true, true
	return twice
}

// valueEnded takes in the end of a value that is an object or an array.
func (l *level) valueEnded() { l.value = false }
