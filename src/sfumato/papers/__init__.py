"""Five papers: each system as printed and mended, its experiments, its tables and figures.

========================  ==========================================================================
`sfumato.papers.kahm`     KAHM, kernel affine hull machines: Kumar, Moser, Fischer, JAIR 2024
`...papers.cdmma`         CDMMA, conditionally deep membership-mapping autoencoders: Kumar, 2021
`...papers.functions`     privacy of functions and functional data: Hall and others, JMLR 2013
`...papers.large_margin`  large-margin Gaussian classifiers: Pathak, Raj, 2010
`...papers.feddpdr`       FedDPDR-DPML and DPDR-DPML, federated support vectors: Wang and others
========================  ==========================================================================

``Printed...`` is the algorithm as printed, and says what its printed promise is worth. ``Entry...``
keeps the promise for one number of one row. docs/reproductions lists every definition, algorithm,
table and figure of each paper with its symbol and its command, such as
``sfumato reproduce kahm --table 5 --cell eps=1,n=20``.
"""

from sfumato.papers.catalogue import PAPERS, entries_of, entry_of
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting, Verdict, verdict_of
from sfumato.papers.running import Reproduction, keep, reproduce
