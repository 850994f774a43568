// Package kubelist reads objects of Kubernetes as kubectl get writes them: lists and
// single objects, in JSON (-o json) or YAML (-o yaml), one behind the other. It needs no
// client library, and knows no kind.
//
// Nouns: an Object is one object of such a file, as JSON; a Quantity is an amount in it.
package kubelist

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/internal/yamltext"
)

// MaxYAML is the longest file in YAML that is read, in bytes. JSON is read object by
// object and may have any length.
const MaxYAML = 64 << 20

// Object is an object: its kind, such as Node, its version, such as v1, and its JSON. Kind
// and version are empty where neither it nor the list before it tells them.
type Object struct {
	Kind, Version string
	JSON          []byte
}

// Group is the API group of the object; empty: the core group.
func (o *Object) Group() string {
	group, _, found := strings.Cut(o.Version, "/")
	if !found {
		return ""
	}
	return group
}

// Each visits all objects of a file in their order. The JSON is valid until visit returns
// when the file is YAML, and for good otherwise. It fails on what is neither JSON nor
// YAML, on lists without objects in them (items), on a file that breaks off
// (io.ErrUnexpectedEOF), and with what visit fails with.
func Each(in io.Reader, visit func(o Object) error) error {
	body := bufio.NewReader(in)
	first, err := firstByte(body)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("is empty")
	case err != nil:
		return err
	case first != '{':
		return eachYAML(body, visit)
	}
	d := json.NewDecoder(body)
	for {
		switch err := value(d, visit); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// firstByte is the first byte that is no space, which stays unread.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, in.UnreadByte()
		}
	}
}

// value visits a list, or an object by itself. It is io.EOF where there is none.
func value(d *json.Decoder, visit func(o Object) error) error {
	if err := delimiter(d, '{'); err != nil {
		return err
	}
	err := members(d, visit)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// members reads what stands in the braces of a list or an object.
func members(d *json.Decoder, visit func(o Object) error) error {
	fields, list := map[string]json.RawMessage{}, false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if name == "items" {
			list = true
			if err = items(d, header(fields), visit); err != nil {
				return err
			}
			continue
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return err
		}
		fields[name] = v
	}
	if err := delimiter(d, '}'); err != nil || list {
		return err
	}
	whole, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	o := header(fields)
	if strings.HasSuffix(o.Kind, "List") {
		return fmt.Errorf("a %s without items", o.Kind)
	}
	o.JSON = whole
	return visit(o)
}

// header is kind and version of an object or a list.
func header(fields map[string]json.RawMessage) (o Object) {
	_ = json.Unmarshal(fields["kind"], &o.Kind) // what is no text is not told
	_ = json.Unmarshal(fields["apiVersion"], &o.Version)
	return o
}

// items visits the objects of a list.
func items(d *json.Decoder, list Object, visit func(o Object) error) error {
	if err := delimiter(d, '['); err != nil {
		return err
	}
	for n := 1; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("item %d: %w", n, err)
		}
		if err := visit(member(list, raw)); err != nil {
			return err
		}
	}
	return delimiter(d, ']')
}

// member is an object of a list. A list of one kind tells that of its objects.
func member(list Object, raw []byte) Object {
	o := Object{JSON: raw}
	var own struct{ Kind, APIVersion string }
	if json.Unmarshal(raw, &own) == nil {
		o.Kind, o.Version = own.Kind, own.APIVersion
	}
	if kind, one := strings.CutSuffix(list.Kind, "List"); o.Kind == "" && one {
		o.Kind, o.Version = kind, list.Version
	}
	return o
}

// delimiter passes over one bracket.
func delimiter(d *json.Decoder, want json.Delim) error {
	switch t, err := d.Token(); {
	case err != nil:
		return err
	case t != want:
		return fmt.Errorf("byte %d: expected %v in what kubectl get wrote", d.InputOffset(), want)
	}
	return nil
}

// eachYAML visits the objects of all documents. It turns each document into JSON.
func eachYAML(in io.Reader, visit func(o Object) error) error {
	text, err := io.ReadAll(io.LimitReader(in, MaxYAML+1))
	if err != nil {
		return err
	}
	if len(text) > MaxYAML {
		return fmt.Errorf("more than %d MiB of YAML; write -o json", MaxYAML>>20)
	}
	docs, err := yamltext.Documents(text)
	if err != nil {
		return located(err)
	}
	for _, doc := range docs {
		var v map[string]any
		if err := yaml.NodeToValue(doc, &v); err != nil {
			return located(err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := value(json.NewDecoder(bytes.NewReader(raw)), visit); err != nil {
			return err
		}
	}
	return nil
}

// located says in which line of YAML something is wrong.
func located(err error) error {
	var at *yaml.SyntaxError
	if !errors.As(err, &at) || at.Token == nil {
		return err
	}
	return fmt.Errorf("line %d, column %d: %s", at.Token.Position.Line, at.Token.Position.Column, at.Message)
}

// Head is kind and version of the first object of a file that begins like this, of which
// more may follow. ok is false where it is nothing that kubectl get writes. Both are empty
// where the beginning does not tell them, as that of an empty list.
func Head(text []byte) (o Object, ok bool) {
	text = bytes.TrimLeft(text, "\ufeff \t\r\n")
	if len(text) == 0 {
		return o, false
	}
	if text[0] == '{' {
		return headJSON(text)
	}
	return headYAML(text)
}

func headJSON(text []byte) (o Object, ok bool) {
	t := jsontext.NewReader(text)
	items := false
	// The head may end anywhere, so what follows the first fields is not asked for.
	_ = t.Object(func(key []byte) error {
		switch string(key) {
		case "kind":
			v, err := t.Text()
			o.Kind = string(v)
			return err
		case "apiVersion":
			v, err := t.Text()
			o.Version = string(v)
			return err
		case "items":
			if items = t.Peek() == '['; items {
				o = member(o, firstItem(t))
			}
			return io.EOF
		}
		return t.Skip()
	})
	return o, items || o.Kind != "" && o.Version != ""
}

// firstItem is kind and version of the first object of a list, as an object.
func firstItem(t *jsontext.Reader) []byte {
	var own struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	_ = t.Array(func() error {
		return t.Object(func(key []byte) error {
			var err error
			var v []byte
			switch string(key) {
			case "kind":
				v, err = t.Text()
				own.Kind = string(v)
			case "apiVersion":
				v, err = t.Text()
				own.APIVersion = string(v)
			default:
				err = t.Skip()
			}
			if own.Kind != "" && own.APIVersion != "" {
				return io.EOF
			}
			return err
		})
	})
	raw, _ := json.Marshal(own) // of two texts, which cannot fail
	return raw
}

// headYAML looks at the lines that begin with kind and apiVersion, of a list or of the
// first object in it.
func headYAML(text []byte) (o Object, ok bool) {
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("- ")))
		if v, is := bytes.CutPrefix(trimmed, []byte("apiVersion:")); is {
			o.Version = string(bytes.Trim(v, " '\""))
		}
		if v, is := bytes.CutPrefix(trimmed, []byte("kind:")); is {
			if kind := string(bytes.Trim(v, " '\"")); kind != "List" {
				o.Kind = kind
				break
			}
		}
	}
	return o, o.Version != ""
}
