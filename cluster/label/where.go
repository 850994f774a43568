package label

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Op is how a requirement compares the label of a node.
type Op uint8

// The operators. A node without the label meets NotIn and DoesNotExist alone. Gt and
// Lt compare whole numbers, and a node whose value is none does not meet them.
const (
	In Op = iota + 1
	NotIn
	Exists
	DoesNotExist
	Gt
	Lt
)

// Requirement is a condition on one label.
type Requirement struct {
	Key    string
	Op     Op
	Values []string // of In and NotIn, in order
	Number int64    // of Gt and Lt
}

// Where is a condition on the labels of a node. It holds where all requirements of
// any alternative hold. The zero Where holds everywhere.
type Where [][]Requirement

// Bounds of a condition.
const (
	maxWhere  = 16 << 10 // bytes of its text
	maxValues = 4096     // requirements and values together
	maxName   = 253      // bytes of a value: names of nodes, too, are compared, and those may be long
)

// Holds tells whether a node meets the condition. The function gives the value of
// a label of the node; ok is false where it has none.
func (w Where) Holds(value func(key string) (v string, ok bool)) bool {
	for _, all := range w {
		if !slices.ContainsFunc(all, func(r Requirement) bool { return !r.Holds(value) }) {
			return true
		}
	}
	return len(w) == 0
}

// Holds tells whether a node meets the requirement.
func (r *Requirement) Holds(value func(key string) (v string, ok bool)) bool {
	v, ok := value(r.Key)
	switch r.Op {
	case In:
		return ok && slices.Contains(r.Values, v)
	case NotIn:
		return !ok || !slices.Contains(r.Values, v)
	case Exists:
		return ok
	case DoesNotExist:
		return !ok
	}
	n, err := strconv.ParseInt(v, 10, 64)
	return ok && err == nil && (r.Op == Gt && n > r.Number || r.Op == Lt && n < r.Number)
}

// String writes the requirement in its canonical form.
func (r *Requirement) String() string {
	switch r.Op {
	case In, NotIn:
		if len(r.Values) == 1 {
			return r.Key + map[Op]string{In: "=", NotIn: "!="}[r.Op] + quote(r.Values[0])
		}
		values := make([]string, len(r.Values))
		for i, v := range r.Values {
			values[i] = quote(v)
		}
		return r.Key + map[Op]string{In: " in (", NotIn: " notin ("}[r.Op] + strings.Join(values, ",") + ")"
	case DoesNotExist:
		return "!" + r.Key
	case Gt:
		return r.Key + ">" + strconv.FormatInt(r.Number, 10)
	case Lt:
		return r.Key + "<" + strconv.FormatInt(r.Number, 10)
	}
	return r.Key
}

// quote writes a value so that it can be read again.
func quote(v string) string {
	if v == "" {
		return `""`
	}
	return v
}

// String writes the condition in its canonical form, empty where it holds everywhere.
func (w Where) String() string {
	parts := make([]string, len(w))
	for i, all := range w {
		parts[i] = conjunction(all)
	}
	return strings.Join(parts, " | ")
}

func conjunction(all []Requirement) string {
	parts := make([]string, len(all))
	for i := range all {
		parts[i] = all[i].String()
	}
	return strings.Join(parts, ", ")
}

// ParseWhere reads a condition:
//
//	zone=a                      the label has the value; zone==a says the same
//	zone!=a                     it has another value, or is missing
//	zone in (a,b)               one of the values
//	zone notin (a,b)            none of them, or it is missing
//	nvlink                      it is there
//	!spot                       it is missing
//	gpu-mem > 40, cores < 128   whole numbers
//
// Commas stand for and, and bind closer than |, which stands for or. The empty value
// is written as "". Equal conditions come out equal, whatever their order. An error
// says where the text goes wrong.
func ParseWhere(text string) (Where, error) {
	if len(text) > maxWhere {
		return nil, fmt.Errorf("a condition of %d bytes, at most %d are allowed", len(text), maxWhere)
	}
	p := parser{text: text}
	if p.space(); p.at == len(text) {
		return nil, nil
	}
	var w Where
	for {
		all, err := p.conjunction()
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		w = append(w, all)
		if p.at == len(text) {
			break
		}
	}
	if p.values > maxValues {
		return nil, fmt.Errorf("a condition of %d requirements and values, at most %d are allowed", p.values, maxValues)
	}
	slices.SortFunc(w, func(a, b []Requirement) int { return cmp.Compare(conjunction(a), conjunction(b)) })
	return slices.CompactFunc(w, func(a, b []Requirement) bool { return conjunction(a) == conjunction(b) }), nil
}

// parser is a text that is being read.
type parser struct {
	text   string
	at     int
	values int // requirements and values so far
}

// conjunction reads requirements up to a bar or the end.
func (p *parser) conjunction() (all []Requirement, err error) {
	for {
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		p.values++
		switch p.space(); {
		case p.take(","):
			continue
		case p.take("|"):
			p.take("|") // || says the same
			if p.space(); p.at == len(p.text) {
				return nil, p.wrong("the label of another requirement")
			}
		case p.at < len(p.text):
			return nil, p.wrong("a comma, | or the end")
		}
		slices.SortFunc(all, func(a, b Requirement) int { return cmp.Compare(a.String(), b.String()) })
		return slices.CompactFunc(all, func(a, b Requirement) bool { return a.String() == b.String() }), nil
	}
}

func (p *parser) requirement() (r Requirement, err error) {
	p.space()
	not := p.take("!")
	p.space()
	n := prefix(p.text[p.at:], true)
	if r.Key = p.text[p.at : p.at+n]; !goodKey(r.Key) {
		if n > 0 {
			return r, fmt.Errorf("label %q: %s", r.Key, keyRule)
		}
		return r, p.wrong("the key of a label")
	}
	p.at += n
	if not {
		r.Op = DoesNotExist
		return r, nil
	}
	switch p.space(); {
	case p.take("!="):
		r.Op = NotIn
		return r, p.value(&r)
	case p.take("=="), p.take("="):
		r.Op = In
		return r, p.value(&r)
	case p.take(">"):
		r.Op = Gt
		return r, p.number(&r)
	case p.take("<"):
		r.Op = Lt
		return r, p.number(&r)
	case p.word("in"):
		r.Op = In
		return r, p.list(&r)
	case p.word("notin"):
		r.Op = NotIn
		return r, p.list(&r)
	case p.word("not"):
		if p.space(); !p.word("in") {
			return r, p.wrong("in, as in " + r.Key + " not in (a,b)")
		}
		r.Op = NotIn
		return r, p.list(&r)
	}
	r.Op = Exists
	return r, nil
}

// list reads values in parentheses.
func (p *parser) list(r *Requirement) error {
	if p.space(); !p.take("(") {
		return p.wrong("values in parentheses, as in " + r.Key + " in (a,b)")
	}
	for {
		if err := p.value(r); err != nil {
			return err
		}
		switch p.space(); {
		case p.take(","):
		case p.take(")"):
			slices.Sort(r.Values)
			r.Values = slices.Compact(r.Values)
			return nil
		default:
			return p.wrong("a comma or )")
		}
	}
}

// value reads one value.
func (p *parser) value(r *Requirement) error {
	p.values++
	if p.space(); p.take(`""`) {
		r.Values = append(r.Values, "")
		return nil
	}
	n := prefix(p.text[p.at:], false)
	v := p.text[p.at : p.at+n]
	switch {
	case n == 0:
		return p.wrong("a value of label " + r.Key + `, or "" for the empty one`)
	case len(v) > maxName:
		return fmt.Errorf("value %q of label %s: a value of a condition has at most %d bytes", v, r.Key, maxName)
	}
	r.Values = append(r.Values, v)
	p.at += n
	return nil
}

// number reads a whole number.
func (p *parser) number(r *Requirement) (err error) {
	p.space()
	n := 0
	for rest := p.text[p.at:]; n < len(rest) && (rest[n] == '-' && n == 0 || rest[n] >= '0' && rest[n] <= '9'); {
		n++
	}
	if r.Number, err = strconv.ParseInt(p.text[p.at:p.at+n], 10, 64); err != nil {
		return p.wrong("a whole number, with which label " + r.Key + " is compared")
	}
	p.at += n
	return nil
}

// space goes on behind blanks.
func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t' || p.text[p.at] == '\n') {
		p.at++
	}
}

// take goes on behind a sign, if it is next.
func (p *parser) take(sign string) bool {
	ok := strings.HasPrefix(p.text[p.at:], sign)
	if ok {
		p.at += len(sign)
	}
	return ok
}

// word goes on behind a word, if it is next.
func (p *parser) word(w string) bool {
	rest, ok := strings.CutPrefix(p.text[p.at:], w)
	if ok = ok && prefix(rest, true) == 0; ok {
		p.at += len(w)
	}
	return ok
}

// wrong says what should stand where the text goes wrong.
func (p *parser) wrong(want string) error {
	if p.at == len(p.text) {
		return fmt.Errorf("it ends where it should have %s", want)
	}
	return fmt.Errorf("at byte %d, %q: write %s", p.at+1, shorten(p.text[p.at:]), want)
}

// shorten is the beginning of a text.
func shorten(text string) string {
	for i := range text {
		if i >= 20 {
			return text[:i] + "..."
		}
	}
	return text
}
