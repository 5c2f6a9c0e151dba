"""Readers of annotations in foreign formats (COCO JSON, VOC, CityPersons, YOLO, CVAT, Labelme), and the packing of these."""
