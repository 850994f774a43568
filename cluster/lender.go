package cluster

// LenderLabel is the key of the label of a node that belongs to somebody else, who lends it
// and takes it back. Its value is the name of the lender.
const LenderLabel = "lender"

// Lender is who lends a node; empty where it is our own.
func (n *NodeSpec) Lender() string {
	for i := range n.Labels {
		if n.Labels[i].Key == LenderLabel {
			return n.Labels[i].Value
		}
	}
	return ""
}
