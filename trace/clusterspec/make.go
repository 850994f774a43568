package clusterspec

// Complete makes a description of what was gathered about single nodes and tenants, each
// node being a group of one with a plain name, or none. Neighbours that differ in nothing
// but the number in their names become groups, and the description is made canonical and
// checked, as all are that this package reads. It fails on what no description may be.
func (s *Spec) Complete() error {
	var err error
	if s.Nodes, err = compact(s.Nodes); err != nil {
		return err
	}
	return s.finish()
}
