package reproduce

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// WriteJSON writes rows as an array of objects, one to a line.
func WriteJSON(out io.Writer, rows []Row) error {
	if len(rows) == 0 {
		_, err := io.WriteString(out, "[]\n")
		return err
	}
	for i := range rows {
		text, err := json.Marshal(rows[i])
		if err != nil {
			return fmt.Errorf("%s: %w", rows[i].ID, err)
		}
		open, end := " ", ",\n"
		if i == 0 {
			open = "["
		}
		if i == len(rows)-1 {
			end = "]\n"
		}
		if _, err := fmt.Fprintf(out, "%s%s%s", open, text, end); err != nil {
			return err
		}
	}
	return nil
}

// ReadJSON reads rows that WriteJSON has written.
func ReadJSON(in io.Reader) ([]Row, error) {
	var rows []Row
	return rows, json.NewDecoder(in).Decode(&rows)
}

// slack is the part by which a ratio may get worse where its claim has no tolerance.
const slack = 0.1

// Worse lists in words the rows that are worse than recorded ones of the same claim and
// form, by more than the tolerance of the claim. It also lists those of which nothing is
// recorded, since a record that lacks them checks nothing, and those without data.
func Worse(rows, recorded []Row) []string {
	before := map[string]*Row{}
	for i := range recorded {
		before[recorded[i].Form+" "+recorded[i].ID] = &recorded[i]
	}
	var out []string
	for i := range rows {
		r := &rows[i]
		old := before[r.Form+" "+r.ID]
		allowed := r.Tolerance
		if allowed == 0 {
			allowed = slack
		}
		switch {
		case r.NoData != "":
			out = append(out, fmt.Sprintf("%s: no data: %s", r.ID, r.NoData))
		case old == nil || old.NoData != "":
			out = append(out, fmt.Sprintf("%s: nothing is recorded of it in the %s form", r.ID, r.Form))
		case r.smaller && !(r.Ours <= old.Ours*(1+allowed)), !r.smaller && !(r.Ours >= old.Ours*(1-allowed)):
			out = append(out, fmt.Sprintf("%s: %s, recorded is %s, and more than %g %% worse", r.ID, number(r.Ours), number(old.Ours), math.Round(100*allowed)))
		}
	}
	return out
}
