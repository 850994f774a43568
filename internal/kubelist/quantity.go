package kubelist

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Quantity is an amount as it is written: 500m, 16Gi. In JSON it is a text or a number.
type Quantity string

// UnmarshalJSON reads a text or a number.
func (q *Quantity) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		*q = Quantity(text)
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(raw, &number); err != nil {
		return fmt.Errorf("%.40s is no quantity", raw)
	}
	*q = Quantity(number)
	return nil
}

// Amounts reads quantities by a function, in order of their names. An error names the
// resource.
func Amounts(written map[string]Quantity, read func(text string) (float64, error)) (map[string]float64, error) {
	out := make(map[string]float64, len(written))
	for _, name := range slices.Sorted(maps.Keys(written)) {
		v, err := read(string(written[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = v
	}
	return out, nil
}
